# SPDX-License-Identifier: Apache-2.0
require 'digest'
require 'json'
require 'net/http'

def start(url, proxy = ENV['PROXY'], *login)
  target = URI(url)
  through = proxy && URI(proxy)
  settings = { use_ssl: target.scheme == 'https', ca_file: ENV['CA'], read_timeout: 30 }
  Net::HTTP.start(target.host, target.port, through&.host, through&.port, *login, settings) do |connection|
    yield connection, target
  end
end

def ask(url, *through)
  start(url, *through) { |connection, target| connection.request(Net::HTTP::Get.new(target)) }
end

def deliver(request, url)
  start(url) { |connection, _| connection.request(request) }
end

base = ENV['BASE']
answer = ask("#{base}/hello")
puts "get #{answer.body} #{answer.code}"
request = Net::HTTP::Post.new(URI("#{base}/echo"))
request.body = 'some fields'
answer = deliver(request, base)
puts "post #{answer.body} #{answer.code}"
known = ask("#{base}/hello", ENV['AUTH_PROXY'], 'user', 'password')
puts "auth #{ask("#{base}/hello", ENV['AUTH_PROXY']).code} #{known.code}"
puts "download #{Digest::SHA256.hexdigest(ask("#{base}/large").body)}"
part = File.binread(ENV['PART'])
request = Net::HTTP::Get.new(URI("#{base}/large"), 'Range' => "bytes=#{part.size}-")
puts "resume #{Digest::SHA256.hexdigest(part + deliver(request, base).body)}"
File.open(ENV['UPLOAD'], 'rb') do |file|
  request = Net::HTTP::Put.new(URI("#{base}/upload"), 'Transfer-Encoding' => 'chunked')
  request.body_stream = file
  puts "upload #{deliver(request, base).body}"
end
location = ask("#{base}/redirect")['Location']
answer = ask(location)
puts "redirect #{answer.body} #{answer.code} #{location}"
answer = ask("#{ENV['WRONG']}/hello")
puts "error #{answer.code} #{JSON.parse(answer.body)['error']}"
start(base) { |connection, _| 2.times { |number| connection.get("/keep/#{ENV['NAME']}/#{number + 1}") } }
puts 'keep done'
answer = ask("#{ENV['INNER']}/hello")
puts "intercept #{answer.body} #{answer.code}"
begin
  ask("#{ENV['SECURE']}/hello")
rescue Net::HTTPClientException, Net::ProtocolError => error
  puts "connect #{error.message[/403/]}"
end
answer = ask("#{ENV['GATEWAY']}/hello", nil)
puts "gateway #{answer.body} #{answer.code}"
