# SPDX-License-Identifier: Apache-2.0
# Perl's LWP.
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use LWP::UserAgent;

sub through {
    my ($proxy, %more) = @_;
    my $agent = LWP::UserAgent->new(ssl_opts => { SSL_ca_file => $ENV{CA} }, timeout => 30, %more);
    $agent->proxy(['http', 'https'], $proxy) if $proxy;
    return $agent;
}

sub contents {
    my ($name) = @_;
    open my $file, '<:raw', $name or die;
    local $/;
    return <$file>;
}

sub told { my ($answer) = @_; return $answer->content . ' ' . $answer->code }

my $base = $ENV{BASE};
my $client = through($ENV{PROXY}, keep_alive => 1);
print 'get ', told($client->get("$base/hello")), "\n";
print 'post ', told($client->post("$base/echo", Content => 'some fields')), "\n";
my $known = through($ENV{AUTH_PROXY} =~ s{://}{://user:password\@}r);
print 'auth ', through($ENV{AUTH_PROXY})->get("$base/hello")->code, ' ', $known->get("$base/hello")->code, "\n";
print 'download ', sha256_hex($client->get("$base/large")->content), "\n";
my $part = contents($ENV{PART});
my $rest = $client->get("$base/large", Range => 'bytes=' . length($part) . '-')->content;
print 'resume ', sha256_hex($part . $rest), "\n";
print 'upload ', $client->put("$base/upload", Content => contents($ENV{UPLOAD}))->content, "\n";
my $answer = $client->get("$base/redirect");
print 'redirect ', told($answer), ' ', $answer->request->uri, "\n";
$answer = $client->get("$ENV{WRONG}/hello");
print 'error ', $answer->code, ' ', $answer->content =~ /"error":"([a-z_]*)"/, "\n";
$client->get("$base/keep/$ENV{NAME}/$_") for 1, 2;
print "keep done\n";
print 'intercept ', told($client->get("$ENV{INNER}/hello")), "\n";
$answer = $client->get("$ENV{SECURE}/hello");
print 'connect ', $answer->status_line =~ /\b(403)\b/, "\n";
print 'gateway ', told(through()->get("$ENV{GATEWAY}/hello")), "\n";
print 'tls ', told(through($ENV{TLS_PROXY})->get("$base/hello")), "\n";
